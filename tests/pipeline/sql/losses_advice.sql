CREATE TABLE region (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE genre (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE customer (id int PRIMARY KEY, email text, points int);
CREATE TABLE customer_genre (customer_id int REFERENCES customer, genre_id int REFERENCES genre,
  PRIMARY KEY (customer_id, genre_id));
CREATE TABLE port (id int PRIMARY KEY, region_id int NOT NULL REFERENCES region, depth int);
CREATE TABLE playlist (id int PRIMARY KEY, seconds int);
CREATE TABLE playlist_genre (playlist_id int REFERENCES playlist, genre_id int REFERENCES genre,
  PRIMARY KEY (playlist_id, genre_id));
