package validationpeer_test

import (
	"encoding/json"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// pool has values that are near the bounds of a description's schemas.
type pool struct {
	numbers []rawText
	texts   []string
	names   []string
}

// spellings are numbers that parsers read differently, or that few of them can read.
var spellings = []rawText{
	"0", "-0", "1.0", "2.50", "1e2", "1E+0", "10e-1", "5e-1", "01", "+1", "1.", ".5", "-", "0x10", "1_000", "1e400", "-1e400",
	"1e-400", "9007199254740993", "2147483648", "-2147483649", "9223372036854775808", "-9223372036854775809", "1.5",
	"1.0000000000000000001", "NaN", "Infinity", "1e99999999999", "0e99999999999", "٣", "1,5", " 1", "1 ", "0.1", "0.3",
	"1000000000000000000000000000000000000000000000000000000000000000000000000",
}

// specials are texts that are near the border of a format, or have another meaning in some style.
var specials = []string{
	"", " ", "null", "true", "false", "TRUE", "True", "yes", "0", "1", "-1", "é", "e\u0301", "😀", "😀😀", "a\x00b", "\u2028",
	"a\nb", "\x7f", `"`, `\`, "%", "%41", "a,b", "a|b", "a;b", "a=b", "a&b", "a.b", "+", "..", "a/b", "[1]", "{}", "#", "?",
	"2023-02-29", "2024-02-30", "2024-2-9", "20240229", "0000-01-01", "2024-02-29 ", "2024-02-29T23:59:59Z",
	"2024-02-29 23:59:59Z", "2024-02-29T23:59:59", "2024-02-29T24:00:00Z", "2016-12-31T23:59:60Z", "2024-02-29t23:59:59z",
	"2024-02-29T23:59:59+25:00", "2024-02-29T23:59:59.Z", "2023-02-29T00:00:00Z", "2024-01-01T00:00:60Z",
	"0B0A4D5E-6F0A-4B8C-9D1E-2F3A4B5C6D7E", "{0b0a4d5e-6f0a-4b8c-9d1e-2f3a4b5c6d7e}", "0b0a4d5e6f0a4b8c9d1e2f3a4b5c6d7e",
	"0b0a4d5e-6f0a-4b8c-9d1e-2f3a4b5c6d7", "00000000-0000-0000-0000-000000000000", "1.2.3", "256.1.1.1", "01.2.3.4",
	"1.2.3.4 ", "::", "::1%eth0", "1::2::3", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7", "a_b", "-a", "a.", "a..b",
	"xn--a", strings.Repeat("a", 64) + ".test", "a", "//a", "http://[::1]/", "http://a b", "urn:x:y", "http://é", "http://a/%zz",
	"mailto:a", "23:59:60Z", "12:00:00", "24:00:00Z", "12:00:00+01:00", "12:00Z", "P", "P1W", "P1Y2W", "PT", "P1D", "PT1H30M",
	"1D", "PT1.5S", "/~2", "/", "a@b", "@", "a b@c.d", `"a b"@c.d`, "a@b@c", ".a@c.d", "YQ", "YQ==", "YQ=", "Y*==", "YQ==\n",
	"_-8=", "Cat", "Dog", "pup", "abc1", "abcd", "1234", "12345", "1234567", "X-1", "K-", "loud",
}

// newPool collects the values of a description.
func newPool(document any) *pool {
	p := &pool{numbers: slices.Clone(spellings), texts: slices.Clone(specials), names: []string{"extra", "x-a", "x-", "", "__proto__"}}
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
		return []any{p.scalar(r)}, " = list"
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
		return []any{p.scalar(r)}, " adds an item"
	}
	i := r.IntN(len(list))
	switch r.IntN(4) {
	case 0:
		return slices.Delete(slices.Clone(list), i, i+1), " lacks an item"
	case 1:
		return append(slices.Clone(list), list[i]), " has an item twice"
	case 2:
		return append(slices.Clone(list), p.scalar(r)), " adds an item"
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
