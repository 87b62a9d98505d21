package validationpeer_test

import (
	"encoding/json"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pool has values that are near the bounds of a description's schemas.
type pool struct {
	numbers []rawText
	texts   []string
	names   []string
}

// newPool collects the values of a description, and those of testdata/values.json: numbers that parsers read
// differently, and texts that are near the border of a format or have a meaning in some style.
func newPool(t *testing.T, document any) *pool {
	t.Helper()
	raw, err := os.ReadFile("testdata/values.json")
	if err != nil {
		t.Fatal(err)
	}
	var special struct {
		Numbers []rawText
		Texts   []string
	}
	decode(t, raw, &special)
	p := &pool{
		numbers: special.Numbers, texts: special.Texts, names: []string{"extra", "x-a", "x-", "", "__proto__"},
	}
	p.collect(document, "")
	for _, list := range []*[]string{&p.texts, &p.names} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.Sort(p.numbers)
	p.numbers = slices.Compact(p.numbers)
	return p
}

// collect adds the values of a part of the document. keyword is the name of the part.
func (p *pool) collect(value any, keyword string) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if keyword == "properties" {
				p.names = append(p.names, name)
			}
			p.collect(v[name], name)
		}
	case []any:
		for _, item := range v {
			p.collect(item, keyword)
		}
	case string:
		if slices.Contains([]string{"enum", "const"}, keyword) {
			p.texts = append(p.texts, v, strings.ToUpper(v), v+" ")
		}
	case json.Number:
		p.addNear(v)
		if n, err := v.Int64(); err == nil && n >= 0 && n < 20 {
			for size := max(0, n-1); size <= n+1; size++ {
				p.texts = append(p.texts, strings.Repeat("a", int(size)), strings.Repeat("😀", int(size)))
			}
		}
	}
}

// addNear adds a number and others around it.
func (p *pool) addNear(n json.Number) {
	exact, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return
	}
	for _, distance := range []string{"-1", "-1/2", "0", "1/100", "1/4", "1"} {
		other, _ := new(big.Rat).SetString(distance)
		text := strings.TrimRight(other.Add(exact, other).FloatString(4), "0")
		p.numbers = append(p.numbers, rawText(strings.TrimSuffix(text, ".")))
	}
}

// scalar returns a number or a text of the pool, or another value without parts.
func (p *pool) scalar(r *rand.Rand) any {
	switch r.IntN(8) {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2, 3, 4:
		return pick(r, p.numbers)
	}
	return pick(r, p.texts)
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

// mutate changes one place of a value. It returns the new value, and a label with the place and the change. isJSON is set
// for a value that is written as JSON.
func (p *pool) mutate(r *rand.Rand, value any, isJSON bool) (changed any, label string) {
	switch v := value.(type) {
	case []any:
		if len(v) > 0 && r.IntN(3) > 0 {
			i := r.IntN(len(v))
			v = slices.Clone(v)
			v[i], label = p.mutate(r, v[i], isJSON)
			return v, "/" + strconv.Itoa(i) + label
		}
		if r.IntN(3) > 0 {
			return p.resize(r, v)
		}
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		if len(v) > 0 && r.IntN(2) > 0 {
			name := pick(r, names)
			v = maps.Clone(v)
			v[name], label = p.mutate(r, v[name], isJSON)
			return v, "/" + name + label
		}
		if r.IntN(4) > 0 {
			return p.restructure(r, v, isJSON)
		}
	}
	switch r.IntN(20) {
	case 0:
		return []any{}, " = []"
	case 1:
		return map[string]any{}, " = {}"
	case 2:
		item := p.scalar(r)
		return []any{item}, " = [" + encodeJSON(item) + "]"
	}
	var other any
	_, isNumber := value.(json.Number)
	_, isText := value.(string)
	switch {
	case isNumber && r.IntN(4) > 0:
		other = pick(r, p.numbers)
	case isText && r.IntN(4) > 0:
		other = pick(r, p.texts)
	default:
		other = p.scalar(r)
	}
	return other, " = " + encodeJSON(other)
}

// resize changes the number of items.
func (p *pool) resize(r *rand.Rand, list []any) (changed any, label string) {
	if len(list) == 0 {
		item := p.scalar(r)
		return []any{item}, " with the item " + encodeJSON(item)
	}
	i := r.IntN(len(list))
	switch r.IntN(4) {
	case 0:
		return slices.Delete(slices.Clone(list), i, i+1), " lacks an item"
	case 1:
		return append(slices.Clone(list), list[i]), " has an item twice"
	case 2:
		item := p.scalar(r)
		return append(slices.Clone(list), item), " with the item " + encodeJSON(item)
	}
	return slices.Concat(list, list, list), " has all items thrice"
}

// restructure changes the names of an object.
func (p *pool) restructure(r *rand.Rand, object map[string]any, isJSON bool) (changed any, label string) {
	out := maps.Clone(object)
	name := pick(r, p.names)
	if len(object) > 0 {
		name = pick(r, slices.Sorted(maps.Keys(object)))
	}
	switch r.IntN(5) {
	case 0:
		delete(out, name)
		return out, " lacks " + name
	case 1:
		if isJSON {
			text := encodeJSON(object)
			return rawText(strings.TrimSuffix(text, "}") + "," + encodeJSON(name) + ":" + encodeJSON(object[name]) + "}"),
				" has twice " + name
		}
	case 2:
		out[strings.ToUpper(name)] = out[name]
		return out, " has another " + strings.ToUpper(name)
	}
	name = pick(r, p.names)
	scalar := p.scalar(r)
	out[name] = scalar
	return out, " with " + name + " = " + encodeJSON(scalar)
}
