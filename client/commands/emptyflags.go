package commands

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

// emptyAllowed is the annotation of the flags for which an empty text is a value.
const emptyAllowed = "gatewright/empty-allowed"

// allowEmpty marks a registered flag for which an empty text is a value.
func allowEmpty(flags *pflag.FlagSet, name string) {
	_ = flags.SetAnnotation(name, emptyAllowed, []string{}) // no error: the flag is registered
}

// rejectEmptyFlags refuses flags that are set to an empty text, and lists with an empty entry. Such a value is
// usually a variable of the shell that is not set, as in --branch "$BRANCH". The default of the flag, which an empty
// value would otherwise select, can be production.
func rejectEmptyFlags(cmd *cobra.Command, _ []string) error {
	var empty []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, allowed := f.Annotations[emptyAllowed]; !allowed && isEmptyValue(f.Value) {
			empty = append(empty, "--"+f.Name)
		}
	})
	if len(empty) == 0 {
		return nil
	}
	return commandline.Usage(fmt.Errorf("the value of %s is empty, and a variable of the shell may be unset: give a "+
		"value, or leave the flag out", strings.Join(empty, " and ")))
}

// isEmptyValue reports whether the value of a flag that is set is an empty text, or a list with an empty entry.
func isEmptyValue(v pflag.Value) bool {
	if list, ok := v.(pflag.SliceValue); ok {
		return len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
	}
	return v.String() == ""
}
