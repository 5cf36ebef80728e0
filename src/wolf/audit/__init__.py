"""How robust a method is: a certificate, an attack, an explanation of what was refused."""
