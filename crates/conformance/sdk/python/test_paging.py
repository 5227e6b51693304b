"""Long lists, a page at a time."""


def test_items_come_in_pages_and_each_once(container):
    for n in range(57):
        container.create_item({"id": f"{n:02}", "pk": str(n % 5)})
    sizes, seen = [], []
    for page in container.read_all_items(max_item_count=10).by_page():
        ids = [item["id"] for item in page]
        sizes.append(len(ids))
        seen += ids
    assert sorted(seen) == [f"{n:02}" for n in range(57)]
    assert max(sizes) <= 10 and len(sizes) >= 6


def test_a_continuation_works_in_another_client(container, client):
    for n in range(25):
        container.create_item({"id": f"{n:02}", "pk": "a"})
    query = {"query": "SELECT * FROM c", "partition_key": "a", "max_item_count": 10}
    pages = container.query_items(**query).by_page()
    first = [item["id"] for item in next(pages)]
    token = pages.continuation_token
    assert token
    other = type(client)(client.client_connection.url_connection, client.client_connection.master_key)
    with other:
        there = other.get_database_client(container.container_link.split("/")[1]).get_container_client(container.id)
        rest = [item["id"] for page in there.query_items(**query).by_page(token) for item in page]
    assert len(first) == 10 and sorted(first + rest) == [f"{n:02}" for n in range(25)]


def test_lists_of_containers_come_in_pages(database):
    from azure.cosmos import PartitionKey

    for n in range(7):
        database.create_container(f"c{n}", PartitionKey("/pk"))
    pages = [[each["id"] for each in page] for page in database.list_containers(max_item_count=3).by_page()]
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [each for page in pages for each in page] == [f"c{n}" for n in range(7)]
