SELECT setseed(0.5);
CREATE TABLE person (id int PRIMARY KEY, born date NOT NULL, height double precision, note text,
    chief int REFERENCES person, likes jsonb);
CREATE TABLE title (person_id int REFERENCES person ON DELETE CASCADE, number int,
    label text NOT NULL CHECK (label IN ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h')),
    since timestamp NOT NULL, pay numeric(9, 2), PRIMARY KEY (person_id, number));
CREATE TABLE duty (id int PRIMARY KEY, person_id int REFERENCES person ON DELETE CASCADE,
    hours real, at timestamp NOT NULL);
CREATE TABLE vote (id int PRIMARY KEY, voter int NOT NULL REFERENCES person ON DELETE CASCADE,
    duty_id int REFERENCES duty, grade smallint NOT NULL);
INSERT INTO person SELECT i, date '1960-01-01' + (random() * 14000)::int, 1.2 + random(),
    CASE WHEN i % 3 > 0 THEN 'likes ' || (ARRAY['tea', 'rain', 'dogs', 'long walks'])[1 + i % 4] END,
    CASE WHEN i > 20 THEN 1 + (i * random() ^ 3)::int % (i - 1) END,
    jsonb_build_object('tea', random() < .5, 'cups', (random() * 9)::int) FROM generate_series(1, 1500) i;
INSERT INTO title SELECT i, n, chr(97 + (i * 7 + n * n + (random() * 2)::int) % 8),
    timestamp '2000-01-01' + interval '1 day' * (i % 900 + n * 300 * random()), round((900 + i % 70 * 50 + 100 * n + 300 * random())::numeric, 2)
    FROM generate_series(1, 1500) i, generate_series(1, 1 + (i * i) % 7) n;
INSERT INTO duty SELECT 10 * i + n, i, 40 * random() ^ 2, timestamp '2010-01-01' + interval '1 hour' * (i + 5000 * random())
    FROM generate_series(1, 1500) i, generate_series(1, (i * i) % 7 / 2) n;
INSERT INTO vote SELECT row_number() OVER (), i, id, 1 + (i + id) % 5 FROM generate_series(1, 1500) i,
    LATERAL (SELECT id FROM duty WHERE (id * 7919 + i * 31) % 997 < (id % 7)) d;
ANALYZE
