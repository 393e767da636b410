"""The settings of a domain: one file, `holdfast.toml`, that reaches every field of the config structs.

The structs say what can be set, what each value means and which are possible; nothing is said twice. This
package owns how values are written (units), where they come from (flag, environment, file, default), the list
of all problems, what a running host takes without a restart, and the reference page made of it.
It decides nothing about a group or a host: it makes values and hands them over.
"""
