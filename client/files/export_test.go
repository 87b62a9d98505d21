package files

// FieldsOf are the fields of a kind, by their names.
func FieldsOf(k *Kind) (map[string]*Field, error) {
	f, err := fieldsOf(k)
	if err != nil {
		return nil, err
	}
	return f.all, nil
}

// SameNumber compares two numbers.
var SameNumber = sameNumber

// SameTime reports whether two times, in JSON, mean the same.
func SameTime(a, b string) bool { return (&Kind{}).same(&Field{Time: true}, Value(a), Value(b)) }
