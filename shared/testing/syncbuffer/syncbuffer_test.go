package syncbuffer_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/syncbuffer"
)

func TestTextIsReadWhileItIsWritten(t *testing.T) {
	const writers, lines = 4, 200
	var text syncbuffer.Text
	var wg sync.WaitGroup
	for n := range writers {
		wg.Go(func() {
			for range lines {
				_, _ = fmt.Fprintf(&text, "line of %d\n", n)
				_ = text.String()
			}
		})
	}
	wg.Wait()
	for n := range writers {
		if got := strings.Count(text.String(), fmt.Sprintf("line of %d\n", n)); got != lines {
			t.Errorf("lines of writer %d = %d, want %d", n, got, lines)
		}
	}
}
