"""How a frozen backbone computes: one int8 product under five outlier rules, NF4, bf16."""
