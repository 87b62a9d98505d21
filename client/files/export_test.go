package files

// FieldsOf returns the fields of a kind by name.
func FieldsOf(k *Kind) (map[string]*Field, error) {
	f, err := fieldsOf(k)
	if err != nil {
		return nil, err
	}
	return f.byName, nil
}

// SameNumber compares two numbers.
var SameNumber = sameNumber

// SameTime reports whether two times in JSON are equal.
func SameTime(a, b string) bool { return (&Kind{}).equalValues(&Field{Time: true}, Value(a), Value(b)) }
