"""Texts of the scripted answers."""

from __future__ import annotations

HEADINGS = (
    "Primary Request and Intent",
    "Key Technical Concepts",
    "Files and Code Sections",
    "Errors and Fixes",
    "Problem Solving",
    "All User Messages",
    "Pending Tasks",
    "Current Work",
    "Optional Next Step",
)

REFUSAL = "I'm sorry, but I can't help with summarising this conversation."

WRONG_LANGUAGE = """<summary>
## 1. Primary Request and Intent
Użytkownik prosił o naprawę błędu w module rozliczeń i o testy.
## 2. Key Technical Concepts
Kolejki, kursory, limity najemców.
## 3. Files and Code Sections
Zmieniono jeden plik w katalogu źródłowym.
## 4. Errors and Fixes
Test nie przechodził, a potem przeszedł.
## 5. Problem Solving
Sprawdzono, kto woła tę funkcję.
## 6. All User Messages
- „napraw to, proszę”
## 7. Pending Tasks
- brak
## 8. Current Work
Trwa praca nad ostatnią prośbą.
## 9. Optional Next Step
Uruchomić testy jeszcze raz.
</summary>"""
