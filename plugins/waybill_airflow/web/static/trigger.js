// Opens the trigger form filled in, and sends it to Airflow's own API with the user's login.
"use strict";
(() => {
  const dialog = document.getElementById("trigger");
  if (!dialog) return;
  const form = dialog.querySelector("form");
  const said = dialog.querySelector("[role=status]");
  const send = form.querySelector("[type=submit]");
  const fields = [...form.querySelectorAll("[name]")];

  const tell = (text, address) => {
    said.textContent = text;
    if (!address) return;
    const link = document.createElement("a");
    link.href = address;
    link.dataset.airflow = "";
    link.textContent = "See it in Airflow";
    said.append(" ", link);
  };
  const fill = (values) => {
    for (const field of fields) {
      const value = values[field.name];
      if (field.type === "checkbox") field.checked = value === true;
      else field.value = value ?? field.dataset.default;
    }
  };
  const values = () => {
    const found = {};
    for (const field of fields) {
      if (field.type === "checkbox") found[field.name] = field.checked;
      else found[field.name] = field.value.trim() === "" ? null : field.value.trim();
    }
    return found;
  };
  const reason = (answer, status) => {
    const detail = answer && answer.detail;
    // Below its first line Airflow repeats the whole form as JSON.
    if (typeof detail === "string") return detail.split("\n")[0].replace(/\.$/, "");
    if (Array.isArray(detail)) return detail.map((one) => one.msg || JSON.stringify(one)).join("; ");
    return status === 401 ? "you are not logged in any more" : `Airflow answered ${status}`;
  };

  for (const button of document.querySelectorAll("button[data-conf]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      fill(JSON.parse(button.dataset.conf));
      tell("");
      send.disabled = false;
      dialog.showModal();
    });
  }
  dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    tell("Asking Airflow …");
    try {
      const answer = await fetch(form.dataset.api, {
        method: "POST",
        headers: { "Content-Type": "application/json", Accept: "application/json" },
        body: JSON.stringify({ logical_date: null, conf: values() }),
      });
      const run = await answer.json().catch(() => null);
      if (answer.ok) {
        tell(`The run ${run.dag_run_id} is ${run.state}.`, form.dataset.runs + encodeURIComponent(run.dag_run_id));
        return;
      }
      tell(`No run was started: ${reason(run, answer.status)}.`);
    } catch (error) {
      tell(`No run was started: Airflow did not answer (${error.message}).`);
    }
    send.disabled = false;
  });
})();
