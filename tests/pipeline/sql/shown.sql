-- Owners of three tickets: stages that decide which dates there are, one closed ticket in four closed before it was opened, one flag of two, and a rare flag beside a common one.
CREATE TABLE owner (id int PRIMARY KEY);
CREATE TABLE ticket (
  id int PRIMARY KEY, owner_id int NOT NULL REFERENCES owner, stage text NOT NULL,
  created date NOT NULL, sent date, seen date, opened date NOT NULL, closed date,
  by_mail boolean NOT NULL, by_post boolean NOT NULL,
  is_live boolean NOT NULL, is_rare boolean NOT NULL, city text NOT NULL, region text NOT NULL);
INSERT INTO owner SELECT i FROM generate_series(1, 1200) i;
INSERT INTO ticket SELECT i, 1 + i % 1200, (ARRAY['new', 'sent', 'seen'])[1 + i % 3],
  d, CASE WHEN i % 3 > 0 THEN d + 3 END, CASE WHEN i % 3 > 1 THEN d + 5 END,
  d, CASE WHEN i % 8 = 0 THEN d - 9 WHEN i % 2 = 0 THEN d + 9 END,
  i % 5 < 2, i % 5 >= 2, i % 2 = 0, i % 60 = 0,
  (ARRAY['Kiel', 'Bonn', 'Aachen'])[1 + i % 3], (ARRAY['North', 'West', 'West'])[1 + i % 3]
  FROM (SELECT i, date '2020-01-01' + i % 700 d FROM generate_series(1, 3600) i) AS made;
