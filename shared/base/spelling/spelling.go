// Package spelling finds the name that the author of a misspelled name probably meant. Messages about unknown settings,
// flags, commands and keywords use it.
//
// It is not a spell checker: callers pass the names that exist.
package spelling

import "slices"

// Nearest returns the name with the smallest edit distance to the typed text,
// and reports whether the distance is at most maxDistance. names must not be empty.
func Nearest(typed string, names []string, maxDistance int) (nearest string, ok bool) {
	nearest = slices.MinFunc(names, func(a, b string) int { return distance(typed, a) - distance(typed, b) })
	return nearest, distance(typed, nearest) <= maxDistance
}

// DidYouMean returns the question "did you mean NAME?", which all programs use after a misspelled name.
func DidYouMean(name string) string { return "did you mean " + name + "?" }

// distance returns the Levenshtein distance: the smallest number of bytes to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substituted := diagonal
			if a[i] != b[j] {
				substituted++
			}
			diagonal = row[j+1]
			row[j+1] = min(substituted, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
