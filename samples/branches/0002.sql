-- The second week: the second branch empties its orders.
DELETE FROM shop_2.orders_2 WHERE id = 2;
UPDATE shop_1.customers SET name = 'Benjamin' WHERE id = 2;
TRUNCATE TABLE shop_2.orders_2;
INSERT INTO shop_2.orders_2 VALUES (3, 1, 8.00);
