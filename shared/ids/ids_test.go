package ids_test

import (
	"crypto/rand"
	"errors"
	"regexp"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gatewright/gatewright/shared/ids"
)

func TestOrderedIdentifiersSortByCreation(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	source := ids.NewSource(rand.Reader, func() time.Time { return now })
	var made []string
	for i := range 2000 {
		if i%500 == 250 {
			now = now.Add(time.Duration(i) * time.Second)
		}
		if i%500 == 499 {
			now = now.Add(-time.Hour) // clocks are set back
		}
		made = append(made, source.Ordered("key", 24))
	}
	if !slices.IsSorted(made) {
		t.Error("they do not sort by creation")
	}
	form := regexp.MustCompile(`^key_[0-9A-Za-z]{24}$`)
	for _, id := range made {
		if !form.MatchString(id) {
			t.Fatal(id)
		}
	}
}

func TestDigitsAreEquallyLikely(t *testing.T) {
	source := ids.NewSource(rand.Reader, time.Now)
	const n = 62_000
	count := map[rune]int{}
	for _, c := range source.Digits(n) {
		count[c]++
	}
	if len(count) != 62 {
		t.Fatalf("%d different digits", len(count))
	}
	for c, k := range count {
		if k < 800 || k > 1200 { // 1000 expected, 6 standard deviations
			t.Errorf("%c comes %d times in %d", c, k, n)
		}
	}
}

func TestUUIDHasVersionFour(t *testing.T) {
	id := ids.NewSource(rand.Reader, time.Now).UUID()
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) {
		t.Error(id)
	}
}

func TestNoIdentifierWithoutRandomness(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an identifier was made")
		}
	}()
	ids.NewSource(iotest.ErrReader(errors.New("empty")), time.Now).UUID()
}
