package samples

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/format/regex"
)

const (
	// optionalDepth is the depth at which optional properties and items are left out.
	optionalDepth = 3
	// maxDepth is the maximum depth of a value.
	maxDepth = 24
	// maxItems is the maximum number of items of a list, and of properties of an object.
	maxItems = 1000
)

// value returns a value for schemas that all apply to it. The value is probably valid: sample checks it.
func (g *generator) value(schemas []place, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errNoValue
	}
	var rules []rule
	for _, p := range schemas {
		var err error
		if rules, err = g.flatten(rules, p, 0); err != nil {
			return nil, err
		}
	}
	allowed := types(rules)
	if all, has := constants(rules); has {
		return g.constant(all, allowed)
	}
	if len(allowed) > 1 {
		allowed = slices.DeleteFunc(allowed, func(name string) bool { return name == "null" })
	}
	if len(allowed) == 0 {
		return nil, errNoValue
	}
	switch allowed[g.choice%len(allowed)] {
	case "object":
		return g.object(rules, depth)
	case "array":
		return g.list(rules, depth)
	case "number":
		return g.number(rules, false)
	case "integer":
		return g.number(rules, true)
	case "boolean":
		return (g.choice+g.salt)%2 == 0, nil
	case "null":
		return nil, nil
	}
	return g.text(rules)
}

// constant chooses one of the values of an enum.
func (g *generator) constant(all []any, allowed []string) (any, error) {
	usable := slices.DeleteFunc(slices.Clone(all), func(value any) bool {
		return !slices.Contains(allowed, typeOf(value))
	})
	if len(usable) == 0 {
		usable = all // the type was inferred, or the check will fail
	}
	if len(usable) == 0 {
		return nil, errNoValue
	}
	return usable[(g.choice+g.salt)%len(usable)], nil
}

func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}

func isEqual(a, b any) bool { return reflect.DeepEqual(a, b) }

// object returns an object with the required properties and, if isFull is set, with the optional ones.
func (g *generator) object(rules []rule, depth int) (any, error) {
	required, known := map[string]bool{}, map[string]bool{}
	for _, r := range rules {
		list, _ := r.object["required"].([]any)
		for _, name := range list {
			if text, isText := name.(string); isText {
				required[text], known[text] = true, true
			}
		}
		properties, _ := r.object["properties"].(map[string]any)
		for name := range properties {
			known[name] = true
		}
	}
	out := map[string]any{}
	least, most := bound(rules, "minProperties", true, 0), bound(rules, "maxProperties", false, maxItems)
	add := func(name string) error {
		schemas, isAllowed := propertySchemas(rules, name)
		if !isAllowed || g.d.isRequest && g.isReadOnly(schemas) {
			return nil
		}
		value, err := g.value(schemas, depth+1)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out[name] = value
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(required)) {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if wanted := g.isFull && depth < optionalDepth || len(out) < least; wanted && len(out) < most && !required[name] {
			if add(name) != nil {
				delete(out, name)
			}
		}
	}
	if least == 0 && len(known) == 0 && g.isFull && depth < optionalDepth {
		least = min(1, most)
	}
	for i := 0; len(out) < least && i < maxItems; i++ {
		if err := add(g.freeName(rules, i)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// freeName returns a name that no schema declares. It matches patternProperties, if there are some.
func (g *generator) freeName(rules []rule, i int) string {
	for _, r := range rules {
		patterns, _ := r.object["patternProperties"].(map[string]any)
		for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
			if text, ok := matching(pattern, i+1); ok {
				return text
			}
		}
	}
	return fmt.Sprintf("name%d", i+1)
}

// propertySchemas returns the schemas of a property. It returns false if the property is not allowed.
func propertySchemas(rules []rule, name string) (schemas []place, isAllowed bool) {
	for _, r := range rules {
		found := false
		properties := r.member("properties")
		if _, has := member(properties.value, name).(map[string]any); has || member(properties.value, name) == true {
			schemas, found = append(schemas, properties.member(name)), true
		}
		patterns := r.member("patternProperties")
		object, _ := patterns.value.(map[string]any)
		for _, pattern := range slices.Sorted(maps.Keys(object)) {
			if compiled, err := regex.Compile(pattern); err == nil && compiled.MatchString(name) {
				schemas, found = append(schemas, patterns.member(pattern)), true
			}
		}
		switch additional := r.member("additionalProperties"); {
		case found || additional.value == nil:
		case additional.value == false:
			return nil, false
		default:
			schemas = append(schemas, additional)
		}
	}
	return schemas, true
}

// isReadOnly reports whether a schema of a property has readOnly.
func (g *generator) isReadOnly(schemas []place) bool {
	for _, p := range schemas {
		rules, err := g.flatten(nil, p, 0)
		if err == nil && slices.ContainsFunc(rules, func(r rule) bool { return r.object["readOnly"] == true }) {
			return true
		}
	}
	return false
}

// list returns a list with the minimum number of items. If items are optional and isFull is set, it has one item.
func (g *generator) list(rules []rule, depth int) (any, error) {
	least, most := bound(rules, "minItems", true, 0), bound(rules, "maxItems", false, maxItems)
	if least > maxItems {
		return nil, errNoValue
	}
	count := least
	isOptional := count == 0
	if isOptional && g.isFull && depth < optionalDepth && most > 0 {
		count = 1
	}
	salt := g.salt
	defer func() { g.salt = salt }()
	out := []any{}
	for i := range count {
		var schemas []place
		for _, r := range rules {
			prefix, _ := r.object["prefixItems"].([]any)
			if i < len(prefix) {
				schemas = append(schemas, r.member("prefixItems").item(i))
			} else if items := r.member("items"); items.value != nil {
				schemas = append(schemas, items)
			}
		}
		g.salt = salt + i
		item, err := g.value(schemas, depth+1)
		if err != nil && isOptional {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, nil
}

// bound returns the strictest value of a keyword of all rules, or otherwise.
func bound(rules []rule, keyword string, isMinimum bool, otherwise int) int {
	for _, r := range rules {
		number, ok := r.object[keyword].(json.Number)
		if !ok {
			continue
		}
		rat, ok := new(big.Rat).SetString(string(number))
		if !ok || !rat.IsInt() || !rat.Num().IsInt64() {
			continue
		}
		if value := int(rat.Num().Int64()); isMinimum == (value > otherwise) {
			otherwise = value
		}
	}
	return otherwise
}

// number returns a number: 1 or, if 1 is not allowed, the nearest number that is. salt adds steps to it.
func (g *generator) number(rules []rule, isInteger bool) (any, error) {
	step := big.NewRat(1, 1)
	var least, most *big.Rat
	for _, r := range rules {
		low, high := g.limits(r.object)
		if low != nil && (least == nil || low.Cmp(least) > 0) {
			least = low
		}
		if high != nil && (most == nil || high.Cmp(most) < 0) {
			most = high
		}
		if multiple := ratOf(r.object["multipleOf"]); multiple != nil && multiple.Sign() > 0 {
			step = multiple
		}
	}
	value := big.NewRat(1, 1)
	switch {
	case least != nil && value.Cmp(least) < 0:
		value = least
	case most != nil && value.Cmp(most) > 0:
		value = most
	}
	multiples := new(big.Rat).Quo(value, step)
	if isInteger || step.Cmp(big.NewRat(1, 1)) != 0 {
		rounded := new(big.Int).Div(multiples.Num(), multiples.Denom()) // rounds down
		if least != nil && new(big.Rat).Mul(new(big.Rat).SetInt(rounded), step).Cmp(least) < 0 {
			rounded.Add(rounded, big.NewInt(1))
		}
		multiples.SetInt(rounded)
	}
	multiples.Add(multiples, big.NewRat(int64(g.salt), 1))
	value = multiples.Mul(multiples, step)
	if value.IsInt() {
		return json.Number(value.Num().String()), nil
	}
	return json.Number(strings.TrimRight(value.FloatString(12), "0")), nil
}

// limits returns the least and the greatest number that a schema allows, nil for none. An exclusive limit is moved by 1,
// or to the middle if both limits are closer than that.
func (g *generator) limits(schema map[string]any) (least, most *big.Rat) {
	least, most = ratOf(schema["minimum"]), ratOf(schema["maximum"])
	low, high := ratOf(schema["exclusiveMinimum"]), ratOf(schema["exclusiveMaximum"])
	if schema["exclusiveMinimum"] == true {
		low = least
	}
	if schema["exclusiveMaximum"] == true {
		high = most
	}
	one := big.NewRat(1, 1)
	if low != nil {
		least = new(big.Rat).Add(low, one)
		if high != nil && least.Cmp(high) >= 0 || high == nil && most != nil && least.Cmp(most) > 0 {
			other := most
			if high != nil {
				other = high
			}
			least = new(big.Rat).Mul(new(big.Rat).Add(low, other), big.NewRat(1, 2))
		}
	}
	if high != nil {
		if most = new(big.Rat).Sub(high, one); least != nil && most.Cmp(least) < 0 {
			most = least
		}
	}
	return least, most
}

// ratOf returns a number, nil for other values.
func ratOf(value any) *big.Rat {
	number, isNumber := value.(json.Number)
	if !isNumber || len(number) > 40 {
		return nil
	}
	rat, _ := new(big.Rat).SetString(string(number))
	return rat
}
