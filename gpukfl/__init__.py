"""x"""
from gpukfl._memory import memory_budget
