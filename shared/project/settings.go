package project

import (
	"time"

	"github.com/tidwall/jsonc"
)

// settings are what gatewright.jsonc says about the build.
type settings struct {
	allowDuplicateRoutes bool
	// preservePaths is pathNormalisation: "preserve" (contract, section 9).
	preservePaths bool
}

// readSettings reads gatewright.jsonc, which a project may do without.
func (c *compiler) readSettings() settings {
	data, has := c.files[settingsFile]
	if !has {
		return settings{}
	}
	// Comments become spaces, so that lines and columns stay what they are.
	doc := c.parse(settingsFile, jsonc.ToJSON(data))
	if doc == nil {
		return settings{}
	}
	c.forbid(settingsFile, nil, doc.root, func([]string) bool { return false })
	if !check(&c.report, settingsFile, "", c.schemas.settings, doc.root) {
		return settings{}
	}
	root, _ := doc.root.(map[string]any)
	for name := range root {
		switch name {
		case "$schema", "version", "compatibilityDate", "projectType", "allowDuplicateRoutes", "allowHostHeaderOverride", "devPortal", "pathNormalisation":
		default:
			c.warn(settingsFile, pointer(name), "This setting is not known and has no effect. Correct its name or remove it.")
		}
	}
	if date, ok := root["compatibilityDate"].(string); ok {
		if _, err := time.Parse(time.DateOnly, date); err != nil {
			c.fail(settingsFile, "/compatibilityDate", "There is no such day. Write a date such as 2026-01-31.")
		}
	}
	duplicates, _ := root["allowDuplicateRoutes"].(bool)
	return settings{allowDuplicateRoutes: duplicates, preservePaths: root["pathNormalisation"] == PreservePaths}
}
