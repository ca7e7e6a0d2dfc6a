CREATE TABLE person (id INTEGER PRIMARY KEY, mail VARCHAR UNIQUE, name VARCHAR NOT NULL);
CREATE TABLE visit (person INTEGER REFERENCES person (id), nr INTEGER, mail VARCHAR,
  PRIMARY KEY (person, nr), FOREIGN KEY (mail) REFERENCES person (mail));
INSERT INTO person VALUES (4711, 'ada@x', 'Ada'), (4712, NULL, 'Bob');
INSERT INTO visit VALUES (4711, 1, NULL), (4711, 2, 'ada@x');
