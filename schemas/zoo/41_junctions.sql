-- Junction tables: of two, of three, with payload, onto itself.
-- canaries: quokkanary
CREATE TABLE student (id integer PRIMARY KEY, name text NOT NULL);
CREATE TABLE course (id integer PRIMARY KEY, title text NOT NULL);
CREATE TABLE term (id integer PRIMARY KEY);
INSERT INTO student SELECT i, 'quokkanary ' || i FROM generate_series(1, 150) i;
INSERT INTO course SELECT i, 'quokkanary ' || i FROM generate_series(1, 20) i;
INSERT INTO term SELECT generate_series(1, 4);
CREATE TABLE enrolment (student integer REFERENCES student ON DELETE CASCADE, course integer REFERENCES course, term integer REFERENCES term, grade numeric(2, 1), PRIMARY KEY (student, course, term));
INSERT INTO enrolment SELECT s, 1 + (s + c) % 20, 1 + s % 4, 1 + c FROM generate_series(1, 150) s, generate_series(1, 3) c;
CREATE TABLE friend (a integer REFERENCES student, b integer REFERENCES student, since date, PRIMARY KEY (a, b), CHECK (a < b));
INSERT INTO friend SELECT i, i + 1, now() FROM generate_series(1, 149) i;
CREATE TABLE bare (student integer NOT NULL REFERENCES student, course integer NOT NULL REFERENCES course);
INSERT INTO bare SELECT 1 + i % 150, 1 + i % 20 FROM generate_series(1, 200) i;
