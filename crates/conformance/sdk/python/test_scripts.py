"""Scripts are kept, listed, replaced and deleted."""

import pytest
from azure.cosmos import exceptions


def test_scripts_come_and_go(container):
    scripts = container.scripts
    scripts.create_stored_procedure({"id": "s", "body": "function () { return 1; }"})
    scripts.create_trigger({"id": "t", "body": "function () {}", "triggerType": "Pre", "triggerOperation": "All"})
    scripts.create_user_defined_function({"id": "u", "body": "function (x) { return x; }"})
    assert [each["id"] for each in scripts.list_stored_procedures()] == ["s"]
    assert [each["id"] for each in scripts.list_triggers()] == ["t"]
    assert [each["id"] for each in scripts.list_user_defined_functions()] == ["u"]
    scripts.replace_stored_procedure("s", {"id": "s", "body": "function () { return 2; }"})
    assert "2" in scripts.get_stored_procedure("s")["body"]
    scripts.delete_stored_procedure("s")
    scripts.delete_trigger("t")
    scripts.delete_user_defined_function("u")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        scripts.get_stored_procedure("s")
