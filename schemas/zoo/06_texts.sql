-- char(n), varchar(n), text; empty strings, spaces, letters of many scripts, control characters.
-- canaries: quokkanary
CREATE TABLE note (
  id integer PRIMARY KEY, code char(3) NOT NULL, short varchar(5), title varchar(80) NOT NULL, body text, one char, city text NOT NULL);
INSERT INTO note SELECT i, (ARRAY['AAA', 'BB', 'C'])[1 + i % 3], left('x' || i, 5), 'Quokkanary title ' || i,
  CASE WHEN i % 5 > 0 THEN repeat('quokkanary body ', i % 7) END, chr(97 + i % 26), (ARRAY['Oslo', 'Köln', '東京', 'O''Hare', 'a\b'])[1 + i % 5]
FROM generate_series(1, 200) i;
INSERT INTO note VALUES (900, '', '', '', E'tab\tnew\nline\r\b\\N \u00a0 "quokkanary"', ' ', 'ﷺ😀'), (901, '   ', NULL, ' ', '\.', NULL, 'x');
