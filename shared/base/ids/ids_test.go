package ids_test

import (
	"crypto/rand"
	"errors"
	"regexp"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
)

func TestOrderedIdentifiersSortByCreation(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	source := ids.NewSource(rand.Reader, func() time.Time { return now })
	var created []string
	for i := range 2000 {
		if i%500 == 250 {
			now = now.Add(time.Duration(i) * time.Second)
		}
		if i%500 == 499 {
			now = now.Add(-time.Hour) // the clock is set back
		}
		created = append(created, source.Ordered("key", 24))
	}
	if !slices.IsSorted(created) {
		t.Errorf("identifiers in order of creation = %v, want them sorted", created)
	}
	pattern := regexp.MustCompile(`^key_[0-9A-Za-z]{24}$`)
	for _, id := range created {
		if !pattern.MatchString(id) {
			t.Fatalf("Ordered() = %s, want key_ and 24 digits", id)
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
		t.Fatalf("different digits = %d, want 62", len(count))
	}
	for c, k := range count {
		if k < 800 || k > 1200 { // 1000 expected, 6 standard deviations
			t.Errorf("digit %c occurs %d times in %d, want about 1000", c, k, n)
		}
	}
}

func TestUUIDHasVersionFour(t *testing.T) {
	id := ids.NewSource(rand.Reader, time.Now).UUID()
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) {
		t.Errorf("UUID() = %s, want a UUID of version 4", id)
	}
}

func TestMissingRandomnessPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("UUID() without randomness does not panic, want a panic")
		}
	}()
	ids.NewSource(iotest.ErrReader(errors.New("empty")), time.Now).UUID()
}
