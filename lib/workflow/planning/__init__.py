"""What is planned: where everything lies, what each run reads, and what the jobs are handed."""
