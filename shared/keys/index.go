package keys

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/store"
)

// The properties by which consumers are found.
const (
	byTag     = "tag"
	byManager = "manager"
)

// property is one of them with its value.
type property struct{ kind, value string }

// tagged spells a tag so that no two are the same text.
func tagged(key, value string) property {
	return property{byTag, url.QueryEscape(key) + "=" + value}
}

// managed is a manager's or invitee's address, in whatever case it is written.
func managed(email string) property { return property{byManager, strings.ToLower(email)} }

// properties derives the consumer's index rows from its record: the only place
// that says which there are.
func (c consumerRecord) properties() map[property]bool {
	out := make(map[property]bool)
	for key, value := range c.Tags {
		out[tagged(key, value)] = true
	}
	for _, m := range c.Managers {
		out[managed(m.Email)] = true
	}
	for _, i := range c.Invites {
		out[managed(i.Email)] = true
	}
	return out
}

// indexRow is a consumer that has a property; its sort key is the name.
type indexRow struct {
	store.Rest

	Name string `dynamodbav:"name"`
}

// indexWrites are the writes that bring the consumer's index rows from those of
// old to those of c. They depend on the version of the consumer's own write.
func (c consumerRecord) indexWrites(g generation, old consumerRecord) []store.Write {
	before, after := old.properties(), c.properties()
	var writes []store.Write
	for _, p := range ordered(before) {
		if !after[p] {
			writes = append(writes, store.Delete(p.row(g, c.Name)))
		}
	}
	for _, p := range ordered(after) {
		if !before[p] {
			writes = append(writes, store.Put(p.row(g, c.Name), indexRow{Name: c.Name}))
		}
	}
	return writes
}

func (p property) row(g generation, consumer string) store.Key {
	return consumerIndexKey(g, p, consumer)
}

func ordered(set map[property]bool) []property {
	return slices.SortedFunc(maps.Keys(set), func(a, b property) int {
		return strings.Compare(a.kind+a.value, b.kind+b.value)
	})
}
