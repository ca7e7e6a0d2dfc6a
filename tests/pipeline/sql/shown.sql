-- Claims of which one in 15 was refused, a state that is hidden where many columns count at once. Owners of three tickets: stages that decide which dates there are, one closed ticket in four closed before it was opened, one flag of two, and a rare flag beside a common one. Bills of kinds that decide which number there is, beside columns that are hardly ever NULL or independent of it, with one of three flags and a fourth that decides a date, and ends of ranges in order, of prices one in eight not.
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
  i % 5 < 2, i % 5 >= 2, i % 2 = 0, i % 30 = 0,
  (ARRAY['Kiel', 'Bonn', 'Aachen'])[1 + i % 3], (ARRAY['North', 'West', 'West'])[1 + i % 3]
  FROM (SELECT i, date '2020-01-01' + i % 700 d FROM generate_series(1, 3600) i) AS made;
CREATE TABLE bill (
  id int PRIMARY KEY, kind text, priority int, note text, card text, iban text,
  sold boolean NOT NULL, held boolean DEFAULT false, lost boolean NOT NULL, is_gift boolean NOT NULL, is_void boolean NOT NULL, voided date,
  low_price numeric(8, 2) NOT NULL, high_price numeric(8, 2) NOT NULL, from_km int NOT NULL, to_km int NOT NULL);
INSERT INTO bill SELECT i, CASE WHEN i % 4 < 2 THEN 'card' ELSE 'iban' END, i % 7, CASE WHEN i % 9 = 0 THEN 'late' END,
  CASE WHEN i % 4 < 2 THEN 'C' || i END, CASE WHEN i % 4 > 1 THEN 'I' || i END,
  i % 5 = 0, i % 5 IN (1, 2), i % 5 > 2, i % 2 = 0, i % 7 = 0, CASE WHEN i % 7 = 0 THEN date '2021-01-01' + i % 99 END,
  i % 90, i % 90 + CASE WHEN i % 8 = 0 THEN -5.5 ELSE i % 20 END, i % 70, i % 70 + i % 9 FROM generate_series(1, 1200) i;
CREATE TABLE claim (
  id int PRIMARY KEY, status text NOT NULL, sender text, approver text, refusal text, remark text, receipt text);
INSERT INTO claim SELECT i, s, CASE WHEN s <> 'open' THEN 'S' || i END, CASE WHEN s = 'paid' THEN 'A' || i END,
  CASE WHEN s = 'refused' THEN 'R' || i END, CASE WHEN i % 2 = 0 THEN 'M' || i END, CASE WHEN s = 'paid' THEN 'P' || i END
  FROM (SELECT i, (ARRAY['refused', 'open', 'sent', 'paid'])[1 + (i % 15 > 0)::int + (i % 15 > 5)::int + (i % 15 > 9)::int] s
    FROM generate_series(1, 1200) i) AS made;
