package project

import (
	"time"
)

// settings are what gatewright.jsonc says about the build.
type settings struct {
	allowDuplicateRoutes bool
	// preservePaths is pathNormalisation: "preserve" (contract, section 9).
	preservePaths bool
}

// compatibility is the last day whose changes of behaviour this release knows. None
// has needed a project's consent yet: all earlier dates mean the same.
const compatibility = "2026-11-22"

// readSettings reads gatewright.jsonc, which a project may do without.
func (c *compiler) readSettings() settings {
	data, has := c.files[settingsFile]
	if !has {
		return settings{}
	}
	doc := c.parse(settingsFile, data)
	if doc == nil {
		c.unread[settingsFile] = true
		return settings{}
	}
	c.forbid(settingsFile, nil, doc.root, func([]string) bool { return false })
	root, _ := doc.root.(map[string]any)
	duplicates, readable := root["allowDuplicateRoutes"].(bool)
	if !check(&c.report, settingsFile, "", c.schemas.settings, doc.root) {
		// What is wrong is told here, and not once more for each route.
		c.unread[settingsFile] = root == nil || root["allowDuplicateRoutes"] != nil && !readable
		return settings{allowDuplicateRoutes: duplicates}
	}
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
		} else if date > compatibility {
			c.warn(settingsFile, "/compatibilityDate", "This gateway knows no behaviour later than that of %s, and serves the project with that. Write that date, or deploy to a newer gateway.", compatibility)
		}
	}
	return settings{allowDuplicateRoutes: duplicates, preservePaths: root["pathNormalisation"] == PreservePaths}
}
