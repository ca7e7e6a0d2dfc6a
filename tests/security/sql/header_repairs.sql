CREATE TYPE mood AS ENUM ('calm', 'wild', 'odd');
CREATE TABLE host (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE guest (
  id int PRIMARY KEY, host int REFERENCES host, mood mood NOT NULL,
  net int NOT NULL DEFAULT 7, tax int NOT NULL DEFAULT 3, gross int NOT NULL DEFAULT 10,
  twice int GENERATED ALWAYS AS (net * 2) STORED,
  stay int4range NOT NULL,
  CONSTRAINT sums CHECK (gross = net + tax),
  CONSTRAINT moody CHECK (mood <> 'odd' OR host IS NULL),
  CONSTRAINT small CHECK (twice <= 60 OR mood = 'calm'),
  CONSTRAINT apart EXCLUDE USING gist (stay WITH &&));
CREATE TABLE place (code text NOT NULL);
INSERT INTO host SELECT i, 'host ' || i FROM generate_series(1, 5) i;
INSERT INTO guest (id, host, mood, net, tax, gross, stay)
  SELECT i, CASE WHEN i % 3 > 0 THEN 1 + i % 5 END,
    (ARRAY['odd', 'calm', 'wild'])[1 + i % 3]::mood,
    CASE WHEN i % 3 = 1 THEN 10 * i ELSE i % 30 END, i % 7,
    CASE WHEN i % 3 = 1 THEN 10 * i ELSE i % 30 END + i % 7, int4range(i * 3, i * 3 + 2)
  FROM generate_series(1, 80) i;
INSERT INTO place VALUES ('here');
