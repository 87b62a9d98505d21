package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/format/project"
)

// schemas returns the functions that return the JSON Schemas of a project's files, by the names that users type.
func schemas() map[string]func() map[string]any {
	return map[string]func() map[string]any{
		"policies": gateway.PoliciesSchema, "settings": project.SettingsSchema, "route": project.RouteSchema,
	}
}

// schemaCommand returns the command that writes the JSON Schema of a file, for editors. Its default format is JSON, because
// editors read no other.
func (a *App) schemaCommand() *cobra.Command {
	names := slices.Sorted(maps.Keys(schemas()))
	c := a.localCommand(&cobra.Command{
		Use: "schema {" + strings.Join(names, "|") + "}", Short: "Write the JSON Schema of a project's file, for editors",
		GroupID: groupProjects,
		Long: "Write the JSON Schema of a project's file, for editors: with it, an editor completes names and shows " +
			"mistakes while you\ntype.\n\n" +
			"policies is config/policies.json with all policies and their options, settings is gatewright.jsonc, and route is " +
			"the\nx-gateway-route of an operation. Name the schema in the file: \"$schema\": \"../policies.schema.json\".",
		Example:   "  gatewright schema policies > policies.schema.json",
		Args:      cobra.ExactArgs(1),
		ValidArgs: names,
	}, func(ctx context.Context, s *session, args []string) error {
		schema, exists := schemas()[args[0]]
		if !exists {
			return exit.WithCode(exit.Usage, fmt.Errorf("there is no schema %q: name one of %s", args[0],
				strings.Join(names, ", ")))
		}
		document, err := json.Marshal(schema())
		if err != nil {
			return fmt.Errorf("write the schema: %w", err)
		}
		return s.out.Document(ctx, document, nil)
	})
	const format = string(output.JSON)
	flag := c.Flags().Lookup("output")
	flag.Usage = strings.Replace(flag.Usage, "default "+string(output.Formats()[0]), "default "+format, 1)
	c.PreRunE = func(*cobra.Command, []string) error {
		if flag.Changed {
			return nil
		}
		return flag.Value.Set(format)
	}
	return c
}
