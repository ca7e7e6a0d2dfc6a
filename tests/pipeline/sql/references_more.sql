-- A fifth of the orders, and then of the lines, without an owner; that of lines is a constraint.
INSERT INTO person SELECT g, 'plan ' || g % 3 FROM generate_series(61, 400) g;
INSERT INTO "order" SELECT 1000 + g, g % 400 + 1, 'x' FROM generate_series(1, 700) g;
INSERT INTO "order" SELECT 2000 + g, 7000 + g, 'lost' FROM generate_series(1, 200) g;
INSERT INTO line SELECT 1000 + g, 1001 + g % 700, CASE g % 4 WHEN 0 THEN '' ELSE 'p' || g % 20
  END, CASE g % 5 WHEN 0 THEN NULL WHEN 1 THEN 0 ELSE 1 + g % 20 END, g % 7,
  (ARRAY['Person', 'Product', 'Other', NULL])[1 + g % 4],
  CASE WHEN g % 4 < 3 THEN 1 + g % 20 END
FROM generate_series(1, 1000) g;
INSERT INTO line SELECT 3000 + g, 90000 + g, 'p1', 3, 3 FROM generate_series(1, 250) g;
UPDATE line SET gifts = (ARRAY['{4,9,12}', '{}', NULL])[1 + id % 3]::integer[] WHERE id > 200;
ALTER TABLE line ALTER "order" DROP NOT NULL,
  ADD FOREIGN KEY ("order") REFERENCES "order" NOT VALID;
INSERT INTO line SELECT 4000 + g, NULL, 'p1', 3, 3 FROM generate_series(1, 150) g;
UPDATE person SET friends = ARRAY[1 + id % 400, 1 + (id * 11) % 400]
