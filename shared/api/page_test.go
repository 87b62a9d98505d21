package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/operation/simulations"
)

// TestPageEndsBeforeThePlatformDoes walks through lists of entries of any size by
// what each page says of itself: nothing is lost, nothing comes twice, and no
// answer has more than the platform carries, escaped as it carries it.
func TestPageEndsBeforeThePlatformDoes(t *testing.T) {
	simulations.Sequential(t)
	// Of drawn lists hardly one in a hundred is longer than a page: one always is.
	all := slices.Repeat([]string{strings.Repeat("a", 1_600_000)}, 5)
	if page := api.Slice(all, api.Page{Limit: 1000}); len(page.Data) != 3 || page.Limit != 3 || page.Total != 5 {
		t.Fatalf("a page of %d entries, limit %d, total %d; want 3 of 5, for a fourth takes more than 5 MB", len(page.Data), page.Limit, page.Total)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"a", `"`, `\`, "<", "é", "\n", "\u2028"})
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 1000, 60_000, 1_600_000}), 0, 16).Draw(t, "sizes")
		all := make([]string, len(sizes))
		for i, size := range sizes {
			unit := text.Draw(t, "text")
			all[i] = strings.Repeat(unit, size/4)
		}
		limit := rapid.IntRange(1, 1001).Draw(t, "limit")
		var got []string
		for pages := 0; len(got) < len(all); pages++ {
			page := api.Slice(all, api.Page{Limit: limit, Offset: len(got)})
			if len(page.Data) == 0 || pages > len(all) {
				t.Fatalf("page %d holds nothing at %d of %d", pages, len(got), len(all))
			}
			if size := carried(t, page); size > 5_001_000 {
				t.Fatalf("a page takes %d bytes", size)
			}
			if page.Offset != len(got) || page.Total != len(all) || page.Limit < len(page.Data) || page.Limit > limit {
				t.Fatalf("offset %d, limit %d of %d, total %d with %d entries", page.Offset, page.Limit, limit, page.Total, len(page.Data))
			}
			got = append(got, page.Data...)
			if len(got) < len(all) && page.Limit != len(page.Data) {
				t.Fatalf("the limit is %d, and the page holds %d and is not the last", page.Limit, len(page.Data))
			}
		}
		if !slices.Equal(got, all) {
			t.Fatal("the pages together are not the list")
		}
	})
}

// carried is how many bytes of the platform's 6 MB an answer takes.
func carried(t *rapid.T, answer any) int {
	var body strings.Builder
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(answer); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	encoder = json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body.String()); err != nil {
		t.Fatal(err)
	}
	return text.Len()
}

func TestPageThatAServiceEndedEarlyTellsItsLength(t *testing.T) {
	if got := api.NewList([]int{1, 2}, api.Page{Limit: 10, Offset: 3}, 9); got.Limit != 2 {
		t.Errorf("2 of 9 entries from 3 on: limit %d", got.Limit)
	}
	if got := api.NewList([]int{1, 2}, api.Page{Limit: 10, Offset: 7}, 9); got.Limit != 10 {
		t.Errorf("the last 2 of 9 entries: limit %d", got.Limit)
	}
	if got := api.NewList([]int(nil), api.Page{Limit: 10}, 9); got.Limit != 10 {
		t.Errorf("none of 9 entries: limit %d, at which a client would stand still", got.Limit)
	}
}
