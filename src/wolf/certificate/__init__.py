"""How robust a method is on your model: bounds, where they are reached, and what it lives through."""

from wolf.certificate.certifying import certify as certify
from wolf.certificate.entries import Certificate as Certificate
from wolf.certificate.entries import Entry as Entry
