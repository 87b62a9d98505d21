package keys

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/core/store"
)

// The kinds of properties in the index of consumers.
const (
	tagKind     = "tag"
	managerKind = "manager"
)

// property is a property of a consumer: a tag, or the address of a manager or invite.
type property struct{ kind, value string }

// tagProperty returns the property of a tag. Different tags have different values.
func tagProperty(key, value string) property {
	return property{tagKind, url.QueryEscape(key) + "=" + value}
}

// managerProperty returns the property of the address of a manager or invite. Upper and lower case are equal.
func managerProperty(email string) property { return property{managerKind, strings.ToLower(email)} }

// properties returns the properties of the consumer. The consumer has an index row for each of them. No other code
// decides which index rows exist.
func (c consumerRecord) properties() map[property]bool {
	out := make(map[property]bool)
	for key, value := range c.Tags {
		out[tagProperty(key, value)] = true
	}
	for _, m := range c.Managers {
		out[managerProperty(m.Email)] = true
	}
	for _, i := range c.Invites {
		out[managerProperty(i.Email)] = true
	}
	return out
}

// consumerIndexPrefix is the key prefix of the index of consumers (indexRow). Each property has a partition with the
// names of the consumers that have this property.
const consumerIndexPrefix store.KeyPrefix = "consumer-by"

// indexRow is the record of a consumer in the partition of a property. Its sort key is the consumer's name.
type indexRow struct {
	store.UnknownAttributes

	Name string `dynamodbav:"name"`
}

func consumerIndexKey(g generation, p property, consumer string) store.Key {
	return store.KeyIn(consumerIndexPartition(g, p), consumer)
}

func consumerIndexPartition(g generation, p property) string {
	return consumerIndexPrefix.Partition(string(g), p.kind, p.value)
}

// indexWrites returns the writes that replace the index rows of old, an earlier version of the consumer, with those of
// c. They have no conditions: in a request, the write of the consumer's record in the same transaction requires the
// version of old. The task Cascades.deleteConsumers needs no condition, because no request reads the rows of a deleted
// bucket.
func (c consumerRecord) indexWrites(g generation, old consumerRecord) []store.Write {
	before, after := old.properties(), c.properties()
	var writes []store.Write
	for _, p := range sortedProperties(before) {
		if !after[p] {
			writes = append(writes, store.Delete(p.indexKey(g, c.Name)))
		}
	}
	for _, p := range sortedProperties(after) {
		if !before[p] {
			writes = append(writes, store.Put(p.indexKey(g, c.Name), indexRow{Name: c.Name}))
		}
	}
	return writes
}

func (p property) indexKey(g generation, consumer string) store.Key {
	return consumerIndexKey(g, p, consumer)
}

func sortedProperties(properties map[property]bool) []property {
	return slices.SortedFunc(maps.Keys(properties), func(a, b property) int {
		return strings.Compare(a.kind+a.value, b.kind+b.value)
	})
}
