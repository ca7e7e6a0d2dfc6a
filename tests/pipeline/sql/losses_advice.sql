CREATE TABLE region (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE genre (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE customer (id int PRIMARY KEY, email text, points int);
CREATE TABLE customer_genre (customer_id int REFERENCES customer, genre_id int REFERENCES genre,
  PRIMARY KEY (customer_id, genre_id));
CREATE TABLE "Quay" (id int PRIMARY KEY, region_id int NOT NULL REFERENCES region, depth int);
CREATE TABLE pile (id int PRIMARY KEY, seconds int);
CREATE TABLE pile_genre (pile_id int REFERENCES pile, genre_id int REFERENCES genre,
  PRIMARY KEY (pile_id, genre_id));
