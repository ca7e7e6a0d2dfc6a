SELECT COUNT(*) FROM parts p WHERE p.weight<20 AND p.kind=3;
SELECT COUNT(*) FROM parts p,stock s WHERE p.id=s.part_id;
SELECT COUNT(*) FROM parts p,stock s,orders o WHERE p.id=s.part_id AND p.id=o.part_id AND p.kind=7 AND p.weight>12.5 AND p.weight<-3 AND o.placed>'2014-09-12 07:12:16'::timestamp AND s.town='L''Aquila';
SELECT COUNT(*) FROM orders o WHERE o.state='sent';
