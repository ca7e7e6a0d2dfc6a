COMMIT
COMMIT AND CHAIN
SET search_path = public
SET standard_conforming_strings = off
SET client_encoding = 'SJIS'
SELECT pg_catalog.set_config('search_path', 'evil', false)
SET ROLE pg_monitor
