package metering

// MaxCustomers is how many customers a Directory remembers.
const MaxCustomers = maxCustomers

// Remembered is how many it does.
func (d *Directory) Remembered() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.customers)
}
