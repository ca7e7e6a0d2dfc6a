CREATE TYPE mood AS ENUM ('low', 'it''s ok', 'high');
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE DOMAIN code AS varchar(12) CHECK (VALUE ~ '^[A-Z]{2}[0-9]{4}$');
CREATE TYPE pair AS (number integer, word text);
