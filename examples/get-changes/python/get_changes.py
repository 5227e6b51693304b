"""All changes of a container, range by range, with a checkpoint for each range.

Run it against a server:
    ASTRARIUM_ENDPOINT=http://127.0.0.1:8081 ASTRARIUM_KEY=… python get_changes.py
"""

import json
import os
import uuid

from azure.cosmos import CosmosClient, PartitionKey


def get_changes(container, checkpoints):
    """Reads what has changed since the checkpoints; gives the ids, and the new checkpoints."""
    changed = []
    checkpoints = dict(checkpoints)
    for feed_range in container.read_feed_ranges():
        name = json.dumps(feed_range, sort_keys=True)
        start = {"continuation": checkpoints[name]} if name in checkpoints else {
            "feed_range": feed_range, "start_time": "Beginning"}
        pages = container.query_items_change_feed(max_item_count=1, **start).by_page()
        for page in pages:
            changed += [document["id"] for document in page]
            checkpoints[name] = container.client_connection.last_response_headers["etag"]
    return changed, checkpoints


def main():
    client = CosmosClient(os.environ["ASTRARIUM_ENDPOINT"], os.environ["ASTRARIUM_KEY"])
    database = client.create_database(f"get-changes-{uuid.uuid4()}")
    try:
        container = database.create_container("readings", PartitionKey("/deviceId"), offer_throughput=20000)
        for n in range(5):
            container.create_item({"id": f"old-{n}", "deviceId": f"device-{n}", "metricValue": n})

        # All documents of the container.
        changed, checkpoints = get_changes(container, {})
        print("first:", " ".join(sorted(changed)))

        container.create_item({"id": "new-1", "deviceId": "xsensr-201", "metricType": "Temperature",
                               "unit": "Celsius", "metricValue": 1000})
        container.create_item({"id": "new-2", "deviceId": "xsensr-212", "metricType": "Pressure",
                               "unit": "psi", "metricValue": 1000})

        # Only the two created above.
        changed, checkpoints = get_changes(container, checkpoints)
        print("second:", " ".join(sorted(changed)))
        return sorted(changed)
    finally:
        client.delete_database(database.id)


if __name__ == "__main__":
    main()
