package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// TestPageFitsPlatformLimit walks through lists with entries of any size and follows the offset and limit of each
// page. No entry may be lost or repeated, and no response, including its escapes, may exceed the platform's limit.
func TestPageFitsPlatformLimit(t *testing.T) {
	simulations.SkipUnderRace(t)
	// Few generated lists are longer than a page. This list always is.
	all := slices.Repeat([]string{strings.Repeat("a", 1_600_000)}, 5)
	if page := api.Slice(all, api.Page{Limit: 1000}); len(page.Data) != 3 || page.Limit != 3 || page.Total != 5 {
		t.Fatalf("Slice(5 entries of 1.6 MB) = %d entries, limit %d, total %d, want 3, 3 and 5: 4 entries exceed 5 MB",
			len(page.Data), page.Limit, page.Total)
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
				t.Fatalf("page %d at %d of %d = %d entries, want some, and at most one page for each entry",
					pages, len(got), len(all), len(page.Data))
			}
			if size := platformBytes(t, page); size > 5_001_000 {
				t.Fatalf("page = %d bytes, want at most 5001000", size)
			}
			if page.Offset != len(got) || page.Total != len(all) || page.Limit < len(page.Data) || page.Limit > limit {
				t.Fatalf("page = offset %d, limit %d, total %d, %d entries, want offset %d, limit at most %d, total %d",
					page.Offset, page.Limit, page.Total, len(page.Data), len(got), limit, len(all))
			}
			got = append(got, page.Data...)
			if len(got) < len(all) && page.Limit != len(page.Data) {
				t.Fatalf("limit of a page before the last = %d, want its %d entries", page.Limit, len(page.Data))
			}
		}
		if !slices.Equal(got, all) {
			t.Fatal("entries of all pages differ from the list, want the same")
		}
	})
}

// platformBytes returns the size of a response, as the platform counts it for its limit of 6 MB.
func platformBytes(t *rapid.T, response any) int {
	var body strings.Builder
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(response); err != nil {
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

// TestShortPageHasItsLengthAsLimit checks the limit of a page with fewer entries than were requested. It is the number
// of entries if more entries follow, unless the page is empty.
func TestShortPageHasItsLengthAsLimit(t *testing.T) {
	if got := api.NewList([]int{1, 2}, api.Page{Limit: 10, Offset: 3}, 9); got.Limit != 2 {
		t.Errorf("entries 3 and 4 of 9: limit = %d, want 2", got.Limit)
	}
	if got := api.NewList([]int{1, 2}, api.Page{Limit: 10, Offset: 7}, 9); got.Limit != 10 {
		t.Errorf("last 2 of 9 entries: limit = %d, want 10", got.Limit)
	}
	if got := api.NewList([]int(nil), api.Page{Limit: 10}, 9); got.Limit != 10 {
		t.Errorf("0 of 9 entries: limit = %d, want 10, so that clients advance", got.Limit)
	}
}
