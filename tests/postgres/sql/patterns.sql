public.sale
PUBLIC.Sale*
public."Sale*"
public."Sale"
*.sale?
pub*.*
"Odd ""Shop"""."a.b*"
*.a.b
odd*."x"
public.s$le
*.sale_2
