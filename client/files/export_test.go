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
