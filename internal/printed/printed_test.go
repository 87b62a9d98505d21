package printed_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/internal/printed"
)

func TestTextIsReadWhileItIsWritten(t *testing.T) {
	const writers, lines = 4, 200
	var text printed.Text
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			for range lines {
				_, _ = fmt.Fprintf(&text, "line of %d\n", n)
				_ = text.String()
			}
		})
	}
	all.Wait()
	for n := range writers {
		if got := strings.Count(text.String(), fmt.Sprintf("line of %d\n", n)); got != lines {
			t.Errorf("of %d lines of %d there are %d", lines, n, got)
		}
	}
}
