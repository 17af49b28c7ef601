SELECT md5(sku) AS product_key, sku, name, price FROM staged
