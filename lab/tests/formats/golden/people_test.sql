SELECT COUNT(*) FROM people WHERE "home Land" >= 'Mexico' COLLATE "C" AND class = 'Private' AND age <= 13;
SELECT COUNT(*) FROM people WHERE age = 72;
SELECT COUNT(*) FROM people WHERE since <= '2018-12-31T00:00:00' AND "home Land" = '>50K  ';
