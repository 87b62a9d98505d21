package bars

import (
	"context"
	"fmt"

	"github.com/gatewright/gatewright/internal/program"
)

// Main is the main of a program that measures: in a new folder, into a table, which is printed. A figure beyond its bar
// is an error of the program's, as program.Main tells them.
func Main(ctx context.Context, name string, measure func(ctx context.Context, dir string, table *Table) error) {
	program.Main(ctx, name, func(ctx context.Context) error {
		return program.InFolder(name, func(dir string) error {
			var table Table
			if err := measure(ctx, dir, &table); err != nil {
				return err
			}
			fmt.Print(&table)
			return table.Err()
		})
	})
}
