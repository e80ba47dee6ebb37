"""From records to what studies read: cleaning, splits, generated corpora, and the settings of both."""
