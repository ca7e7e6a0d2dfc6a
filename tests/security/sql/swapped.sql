DROP TABLE person; CREATE VIEW person AS SELECT public.f() AS id
ALTER TABLE person RENAME TO old; CREATE VIEW person AS SELECT public.f() AS id
ALTER TABLE person RENAME TO old; ALTER VIEW ready RENAME TO person
ALTER TABLE person DROP COLUMN note, ADD COLUMN note public.mood DEFAULT 'glad'
