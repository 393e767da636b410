"""Random LDAP messages and filters, for the tests that write them and read them back."""

from hypothesis import strategies as st

from holdfast.directory import operations
from holdfast.directory.filters import filter as filters
from holdfast.directory.results import ResultCode
from holdfast.ldap import messages

names = st.text(max_size=12)
values = st.binary(max_size=12)
few_values = st.lists(values, max_size=3).map(tuple)
numbers = st.integers(0, messages.MESSAGE_ID_MAX)
maybe_values = st.none() | values
descriptions = st.from_regex(
    r"[a-zA-Z][a-zA-Z0-9-]{0,6}(;[a-z]{1,4}){0,2}|[012](\.[1-9]{1,3}){1,4}", fullmatch=True
)
pieces = st.binary(min_size=1, max_size=5)

substrings = st.builds(
    filters.Substrings,
    descriptions,
    st.none() | pieces,
    st.lists(pieces, max_size=2).map(tuple),
    st.none() | pieces,
).filter(lambda each: each.initial is not None or each.any or each.final is not None)
extensibles = st.builds(
    filters.Extensible,
    values,
    st.none()
    | st.from_regex(r"[a-zA-Z][a-zA-Z0-9-]{0,6}", fullmatch=True).filter(lambda it: it.lower() != "dn"),
    st.none() | descriptions,
    st.booleans(),
).filter(lambda each: each.rule is not None or each.description is not None)
items = (
    st.builds(filters.Equality, descriptions, values)
    | st.builds(filters.GreaterOrEqual, descriptions, values)
    | st.builds(filters.LessOrEqual, descriptions, values)
    | st.builds(filters.Approximate, descriptions, values)
    | st.builds(filters.Present, descriptions)
    | substrings
    | extensibles
)
trees: st.SearchStrategy[filters.Filter] = st.recursive(
    items,
    lambda inner: (
        st.builds(filters.And, st.lists(inner, max_size=3).map(tuple))
        | st.builds(filters.Or, st.lists(inner, max_size=3).map(tuple))
        | st.builds(filters.Not, inner)
    ),
    max_leaves=6,
)

attributes = st.lists(st.builds(operations.Attribute, names, few_values), max_size=3).map(tuple)
full_attributes = st.lists(
    st.builds(operations.Attribute, names, st.lists(values, min_size=1, max_size=3).map(tuple)), max_size=3
).map(tuple)
results = st.builds(
    messages.Result,
    st.sampled_from(ResultCode) | st.integers(4096, 5000),
    names,
    names,
    st.lists(names, max_size=2).map(tuple),
)
requests = (
    st.builds(
        messages.BindRequest,
        st.integers(1, 127),
        names,
        st.builds(messages.SimpleAuthentication, values)
        | st.builds(messages.SaslAuthentication, names, maybe_values),
    )
    | st.just(messages.UnbindRequest())
    | st.builds(
        operations.SearchRequest,
        names,
        st.sampled_from(operations.Scope),
        trees,
        st.lists(names, max_size=3).map(tuple),
        st.sampled_from(operations.AliasDereferencing),
        numbers,
        numbers,
        st.booleans(),
    )
    | st.builds(
        operations.ModifyRequest,
        names,
        st.lists(
            st.builds(
                operations.Modification, st.sampled_from(operations.ModificationKind), names, few_values
            ),
            max_size=3,
        ).map(tuple),
    )
    | st.builds(operations.AddRequest, names, full_attributes)
    | st.builds(operations.DeleteRequest, names)
    | st.builds(operations.ModifyDnRequest, names, names, st.booleans(), st.none() | names)
    | st.builds(operations.CompareRequest, names, names, values)
    | st.builds(messages.AbandonRequest, numbers)
    | st.builds(messages.ExtendedRequest, names, maybe_values)
)
responses = (
    st.builds(messages.BindResponse, results, maybe_values)
    | st.builds(messages.SearchResultEntry, names, attributes)
    | st.builds(messages.SearchResultReference, st.lists(names, min_size=1, max_size=3).map(tuple))
    | st.builds(messages.SearchResultDone, results)
    | st.builds(messages.ModifyResponse, results)
    | st.builds(messages.AddResponse, results)
    | st.builds(messages.DeleteResponse, results)
    | st.builds(messages.ModifyDnResponse, results)
    | st.builds(messages.CompareResponse, results)
    | st.builds(messages.ExtendedResponse, results, st.none() | names, maybe_values)
    | st.builds(messages.IntermediateResponse, st.none() | names, maybe_values)
)
controls = st.lists(st.builds(messages.Control, names, st.booleans(), maybe_values), max_size=2).map(tuple)
whole_messages = st.builds(messages.Message, numbers, requests | responses, controls)
