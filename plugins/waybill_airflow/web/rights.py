"""What a user may see, as Airflow's auth manager says."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    AccessView,
    DagAccessEntity,
    DagDetails,
)
from airflow.models.dag import DagModel

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser


class Rights:
    """The rights of one user.

    Airflow's ready dependencies for lists look for its auth manager in the application that they
    run in, and do not find it in a mounted one. So the manager is asked directly.
    """

    def __init__(self, user: BaseUser) -> None:
        self._user = user
        self._manager: Any = get_auth_manager()

    def dags(self) -> set[str]:
        """Ids of the DAGs that the user may read."""
        found: set[str] = self._manager.get_authorized_dag_ids(user=self._user, method="GET")
        return found

    def with_runs(self, dag_ids: Collection[str]) -> set[str]:
        """Those of some DAGs whose runs the user may see, and so what their batches brought."""
        teams = DagModel.get_dag_id_to_team_name_mapping(sorted(dag_ids))
        return {dag_id for dag_id in dag_ids if self._runs(dag_id, "GET", teams.get(dag_id))}

    def triggers(self, dag_id: str) -> bool:
        """Whether the user may start a run of a DAG; Airflow asks again when they do."""
        return self._runs(dag_id, "POST", DagModel.get_team_name(dag_id))

    def reads_file(self, dag_id: str) -> bool:
        """Whether the user may read the migration's file: who sees the DAG's code."""
        return self._allowed(dag_id, "GET", DagAccessEntity.CODE, DagModel.get_team_name(dag_id))

    def sees_values(self, dag_id: str) -> bool:
        """Whether the user may see keys and values of rows: who reads the logs of its tasks."""
        team = DagModel.get_team_name(dag_id)
        return self._allowed(dag_id, "GET", DagAccessEntity.TASK_LOGS, team)

    def _runs(self, dag_id: str, method: str, team: str | None) -> bool:
        return self._allowed(dag_id, method, DagAccessEntity.RUN, team)

    def _allowed(self, dag_id: str, method: str, entity: DagAccessEntity, team: str | None) -> bool:
        details = DagDetails(id=dag_id, team_name=team)
        allowed: bool = self._manager.is_authorized_dag(
            method=method, access_entity=entity, details=details, user=self._user
        )
        return allowed

    def sees_broken_files(self) -> bool:
        """Whether the user may see files that cannot be used: who sees Airflow's import errors."""
        allowed: bool = self._manager.is_authorized_view(
            access_view=AccessView.IMPORT_ERRORS, user=self._user
        )
        return allowed
