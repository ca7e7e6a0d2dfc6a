-- CHECKs of single columns: ranges, lists, patterns, lengths, functions.
-- canaries: quokkanary
CREATE TABLE item (
  id integer PRIMARY KEY, rating integer NOT NULL CHECK (rating BETWEEN 1 AND 5), price numeric(8, 2) CHECK (price > 0), kind text NOT NULL CHECK (kind IN ('a', 'b', 'c')),
  size varchar(3) CHECK (size = ANY (ARRAY['S', 'M', 'XL'])), mail text CHECK (mail LIKE '%@%'), phone text CHECK (phone ~ '^\+\d{8,12}$'), name text NOT NULL CHECK (btrim(name) <> ''),
  zip text CHECK (char_length(zip) = 5), at timestamptz CHECK (at < '2100-01-01'), odd integer CHECK (odd % 2 = 1), upper_ text CHECK (upper_ = upper(upper_)), web text CHECK (web ~* '^https?://'),
  lat double precision CHECK (lat >= -90 AND lat <= 90), year integer CHECK (year > 1900 AND year <= 2155), never integer CHECK (never IS NULL));
INSERT INTO item SELECT i, 1 + i % 5, i, chr(97 + i % 3), (ARRAY['S', 'M', 'XL'])[1 + i % 3], 'quokkanary' || i || '@x.org', '+49' || 1000000 + i, 'quokkanary ' || i, lpad(i::text, 5, '0'), now(), 2 * i + 1, 'QUOKKANARY' || i, 'https://quokkanary/' || i, i / 2.0, 1990 + i % 30, NULL FROM generate_series(1, 180) i;
