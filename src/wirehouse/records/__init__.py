"""What messages mean: tables and their columns, engines that match messages, the filter language."""
