-- CHECKs across columns: orders, sums, exclusive choices, conditions, row comparison.
-- canaries: quokkanary
CREATE TABLE contract (
  id integer PRIMARY KEY, starts date NOT NULL, ends date, signed date, net integer NOT NULL, tax integer NOT NULL, gross integer NOT NULL, state text NOT NULL, person text, firm text, lo integer, hi integer,
  CHECK (starts <= ends), CHECK (signed IS NULL OR signed <= starts), CHECK (gross = net + tax), CHECK (state <> 'ended' OR ends IS NOT NULL),
  CHECK (num_nonnulls(person, firm) = 1), CHECK ((lo IS NULL) = (hi IS NULL)), CHECK (lo < hi),
  CONSTRAINT "odd ""name""" CHECK (CASE WHEN state = 'new' THEN net > 0 ELSE net >= 0 END));
INSERT INTO contract SELECT i, '2024-01-01'::date + i, '2025-01-01'::date + i, '2023-12-01', i, i / 5, i + i / 5, (ARRAY['new', 'open', 'ended'])[1 + i % 3], CASE WHEN i % 2 = 0 THEN 'quokkanary ' || i END, CASE WHEN i % 2 = 1 THEN 'quokkanary ' || i END, i, i + 10 FROM generate_series(1, 200) i;
